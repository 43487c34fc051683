// Bundles test/*.test.ts, as node of today does not read all of TypeScript, and runs them.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const outdir = mkdtempSync(join(tmpdir(), 'vitrine-web-'));
buildSync({
  entryPoints: readdirSync(here).filter((name) => name.endsWith('.test.ts')).map((name) => join(here, name)),
  bundle: true,
  format: 'esm',
  platform: 'node',
  outExtension: { '.js': '.mjs' },
  outdir,
});
const files = readdirSync(outdir).map((name) => join(outdir, name));
const { status } = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' });
rmSync(outdir, { recursive: true });
process.exit(status ?? 1);
