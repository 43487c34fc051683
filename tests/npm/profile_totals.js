// Decodes a profile with programs of others and prints {"TENANT": [on-CPU ns, off-CPU ns]}.
//
//   node profile_totals.js FORMAT FILE
//
// pprof: pprof-format. otlp: protobufjs, with our own schema. speedscope: checked by ajv against the
// schema that speedscope itself ships. folded and json: line by line. folded and speedscope must have
// been written with the tenant as the outermost group.
'use strict'

const fs = require('fs')
const path = require('path')
const zlib = require('zlib')

const totals = {}
function add (tenant, onCpu, offCpu) {
  const row = (totals[tenant ?? '(none)'] ??= [0, 0])
  row[0] += Number(onCpu)
  row[1] += Number(offCpu)
}

const readers = {
  pprof (bytes) {
    const { Profile } = require('pprof-format')
    const profile = Profile.decode(zlib.gunzipSync(bytes))
    const text = (index) => profile.stringTable.strings[Number(index)]
    const types = profile.sampleType.map((type) => `${text(type.type)}/${text(type.unit)}`)
    if (types[0] !== 'samples/count') throw new Error(`first sample type: ${types[0]}`)
    const [onCpu, offCpu] = ['cpu/nanoseconds', 'off_cpu/nanoseconds'].map((type) => types.indexOf(type))
    const locations = new Set(profile.location.map((location) => location.id))
    for (const sample of profile.sample) {
      for (const id of sample.locationId) if (!locations.has(id)) throw new Error(`no location ${id}`)
      const label = sample.label.find((label) => text(label.key) === 'tenant')
      add(label && text(label.str).replace('(empty)', ''), sample.value[onCpu], sample.value[offCpu])
    }
  },

  otlp (bytes) {
    const protobuf = require('protobufjs')
    const schema = protobuf.loadSync(path.join(__dirname, '..', 'profile', 'otlp.proto'))
    const data = schema.lookupType('otlp.ProfilesData').decode(bytes)
    const { stringTable: strings, attributeTable: attributes, stackTable: stacks } = data.dictionary
    const tenants = attributes.map((attribute) =>
      strings[attribute.keyStrindex] !== 'tenant' ? undefined
        : attribute.value.value === 'stringValueStrindex' ? strings[attribute.value.stringValueStrindex]
          : attribute.value.stringValue)
    for (const { scopeProfiles } of data.resourceProfiles) {
      for (const profile of scopeProfiles.flatMap((scope) => scope.profiles)) {
        const onCpu = strings[profile.sampleType.typeStrindex] === 'samples'
        for (const sample of profile.samples) {
          if (sample.stackIndex >= stacks.length) throw new Error(`no stack ${sample.stackIndex}`)
          const tenant = sample.attributeIndices.map((index) => tenants[index]).find((one) => one !== undefined)
          const sum = sample.values.reduce((sum, value) => sum + Number(value), 0)
          if (onCpu) add(tenant, sample.timestampsUnixNano.length * Number(profile.period), 0)
          else add(tenant, 0, sum)
        }
      }
    }
  },

  speedscope (bytes) {
    const file = JSON.parse(bytes)
    const release = path.join(path.dirname(require.resolve('speedscope/package.json')), 'dist', 'release')
    const schema = JSON.parse(fs.readFileSync(path.join(release, 'file-format-schema.json')))
    const Ajv = require('ajv')
    const ajv = new Ajv({ strict: false })
    if (!ajv.validate(schema, file)) throw new Error(ajv.errorsText())
    const frames = file.shared.frames
    for (const profile of file.profiles) {
      if (profile.samples.length !== profile.weights.length) throw new Error('a sample without a weight')
      profile.samples.forEach((sample, index) => {
        if (sample.some((frame) => frame >= frames.length)) throw new Error('no such frame')
        const tenant = frames[sample[0]].name.replace('tenant=', '')
        const weight = profile.weights[index]
        if (profile.name === 'CPU') add(tenant, weight, 0)
        else add(tenant, 0, weight)
      })
    }
  },

  folded (bytes) {  // both measures: microseconds
    for (const line of bytes.toString().trimEnd().split('\n')) {
      const [, measure, tenant, us] = /^(on|off)-CPU;tenant=([^;]*);.* (\d+)$/.exec(line)
      if (measure === 'on') add(tenant, us * 1000, 0)
      else add(tenant, 0, us * 1000)
    }
  },

  json (bytes) {
    for (const line of bytes.toString().trimEnd().split('\n').slice(0, -1)) {
      const sample = JSON.parse(line)
      const tenant = sample.labels.find((label) => label.key === 'tenant')?.value
      if (sample.measure === 'on_cpu') add(tenant, sample.value_ns, 0)
      else add(tenant, 0, sample.value_ns)
    }
  }
}

const [format, file] = process.argv.slice(2)
readers[format](fs.readFileSync(file))
console.log(JSON.stringify(totals))
