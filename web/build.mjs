// Builds dist/page.html: the page in one file, its script, style and licences in it. The same sources
// give the same bytes (tests/web checks that dist/ is what they give).
//
// usage: node build.mjs [OUTPUT]
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, 'dist/page.html');

const common = { bundle: true, minify: true, write: false, legalComments: 'none', charset: 'ascii', absWorkingDir: here };
const script = await build({
  ...common,
  entryPoints: ['src/main.tsx'],
  format: 'iife',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  define: { 'process.env.NODE_ENV': '"production"' },
  metafile: true,
});
const style = await build({ ...common, entryPoints: ['src/style.css'] });

// What is bundled, by name, and under which licence.
const bundled = Object.keys(script.metafile.inputs)
  .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
  .filter((name) => name !== undefined);
const licences = [...new Set(bundled)].sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(join(here, 'node_modules', name, 'package.json')));
  return `${name} ${version} (${license})\n\n${readFileSync(join(here, 'node_modules', name, 'LICENSE'), 'utf8').trim()}\n`;
});
const notices = `The page of vitrine profile contains these libraries.\n\n${licences.join(`\n${'-'.repeat(78)}\n\n`)}`;

const text = (result) => result.outputFiles[0].text.trim();
const hash = (content) => `'sha256-${createHash('sha256').update(content).digest('base64')}'`;
const javascript = text(script);
const css = text(style);
if (/<\/script|<!--/i.test(javascript) || /<\/style/i.test(css) || notices.includes('--' + '>'))
  throw new Error('a part would end the element that it stands in');

// Nothing but what stands in this file: no network, no other script, no form, no frame.
const policy = `default-src 'none'; script-src ${hash(javascript)}; worker-src blob:; style-src ${hash(css)}; img-src data:; base-uri 'none'; form-action 'none'`;
const parts = { POLICY: policy, LICENCES: notices, STYLE: css, SCRIPT: javascript };
const page = readFileSync(join(here, 'src/page.html'), 'utf8').replace(/@([A-Z]+)@/g, (_, name) => parts[name]);

mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, page);
writeFileSync(join(dirname(output), 'THIRD-PARTY.txt'), notices);
console.log(`${output}: ${page.length} bytes`);
