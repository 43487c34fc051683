// What TypeScript makes of bindings/node/index.d.ts. Compiled, not run.
import { bindLabels, currentLabels, publishContext, withLabels, withTrace } from '../../bindings/node/index';

const length: number = withLabels({ tenant: 'acme', id: new Uint8Array(4) }, () => 'result').length;
const later: Promise<number> = withLabels(new Map([['tenant', 'acme']]), async () => length);
const ids = { traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 1, isRemote: false };
const nothing: void = withTrace(ids, {}, () => {});
const bound: (a: number, b: string) => boolean = bindLabels((a: number, b: string) => `${a}` === b);
const again: Promise<number> = withLabels(currentLabels(), () => later);
publishContext();
publishContext({ 'service.name': 'shop', shards: 3, canary: true });
export const used = [nothing, bound, again];

// @ts-expect-error A number is no label's value.
withLabels({ shard: 1 }, () => {});
// @ts-expect-error There must be something to call.
withLabels({ tenant: 'acme' });
// @ts-expect-error A trace needs both ids.
withTrace({ traceId: '0' }, {}, () => {});
// @ts-expect-error The arguments stay what they are.
bound('1', '1');
// @ts-expect-error A list is not an attribute here.
publishContext({ list: ['a'] });
