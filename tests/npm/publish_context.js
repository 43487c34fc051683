// Publishes a process context with libdatadog, as dd-trace does it, and stays until its standard input
// ends. Prints one line when it has: the context in the shape of `vitrine context --json`.
'use strict'

const { load } = require('@datadog/libdatadog-extras')
const { storeMetadata, TracerMetadata } = load('process-discovery')

const resource = {
  'service.instance.id': '7f1f1c2e-9d5e-4c53-8f2b-5d1f0f6f7a10',
  'telemetry.sdk.version': '6.21.0',
  'host.name': 'test-host',
  'service.name': 'checkout-ünïcode',
  'deployment.environment.name': 'staging',
  'service.version': '2.4.1',
  processTags: 'entrypoint.name:publish_context',
  'container.id': 'c0ffee'
}
const threadlocal = {
  schemaVersion: 'tls_v1',
  attributeKeys: ['http.route', 'tenant'],
  extraAttributes: [{ key: 'threadlocal.limit', intValue: -3 }]
}

// Held for as long as the process lives: the library withdraws the context with it.
global.handle = storeMetadata(new TracerMetadata(...Object.values(resource), threadlocal))

const { processTags, ...shown } = resource
Object.assign(shown, { 'telemetry.sdk.language': 'nodejs', 'telemetry.sdk.name': 'libdatadog' })
const attributes = {
  'datadog.process_tags': processTags,
  'threadlocal.schema_version': 'tls_v1',
  'threadlocal.attribute_key_map': ['datadog.local_root_span_id', 'http.route', 'tenant'],
  'threadlocal.limit': -3
}
const list = (object) => Object.entries(object).map(([key, value]) => ({ key, value }))
console.log(JSON.stringify({
  pid: process.pid, version: 2, resource: list(shown), attributes: list(attributes)
}))
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
