// The page's way to the engine: in a worker, or where the browser refuses one, in slices on the page's
// own thread.
import { Engine, type Queries, type Overview, type Query } from './engine';
import { finish, inSlices } from './slices';

export type Message = { profile: string } | { id: number; query: Query };
/** Of the profile, with id 0, or of a query. */
export type Reply = { id: number; result: unknown } | { id: number; problem: string };

interface Connection {
  readonly overview: Overview;
  query<K extends keyof Queries>(name: K, of: Queries[K]['of']): Promise<Queries[K]['is']>;
}

export interface Client extends Connection {
  /** Calls `tell` whenever queries begin to wait for results, and when none waits any more. */
  watch(tell: (busy: boolean) => void): void;
}

/** `script` is the text of a script that calls serve. Fails with an Error that says why, where `json` is no profile. */
export async function connect(json: string, script: string): Promise<Client> {
  return watched((await inWorker(json, script)) ?? onThisThread(json));
}

async function inWorker(json: string, script: string): Promise<Connection | undefined> {
  let worker: Worker;
  let address = '';
  try {
    address = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
    worker = new Worker(address);
  } catch {
    return undefined;
  }
  const waiting = new Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>();
  const send = <T>(id: number, message: Message) =>
    new Promise<T>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      worker.postMessage(message);
    });
  worker.onmessage = ({ data }: MessageEvent<Reply>) => {
    const { resolve, reject } = waiting.get(data.id)!;
    waiting.delete(data.id);
    if ('problem' in data) reject(new Error(data.problem));
    else resolve(data.result as never);
  };
  // A worker that may not start says so here, and nowhere else.
  const refused = new Promise<undefined>((resolve) => {
    worker.onerror = (event) => {
      event.preventDefault();
      resolve(undefined);
      for (const { reject } of waiting.values()) reject(new Error('the worker of this page stopped'));
      waiting.clear();
    };
  });
  const overview = send<Overview>(0, { profile: json });
  overview.catch(() => {}); // told below, unless the worker was refused
  const first = await Promise.race([overview, refused]);
  URL.revokeObjectURL(address);
  if (!first) return undefined;
  let last = 0;
  return { overview: first, query: (name, of) => send(++last, { id: last, query: { name, of } as Query }) };
}

function onThisThread(json: string): Connection {
  const engine = new Engine(json);
  // One after the other: what is kept of one is of use to the next.
  let before: Promise<unknown> = Promise.resolve();
  return {
    overview: engine.overview(),
    query: (name, of) => {
      const result = before.then(() => inSlices(engine.result(name, of)));
      before = result.catch(() => {});
      return result;
    },
  };
}

function watched({ overview, query }: Connection): Client {
  let waiting = 0;
  let tell = (_: boolean) => {};
  return {
    overview,
    query: async (name, of) => {
      if (++waiting === 1) tell(true);
      try {
        return await query(name, of);
      } finally {
        if (--waiting === 0) tell(false);
      }
    },
    watch: (to) => (tell = to)(waiting > 0),
  };
}

/** The other end, in the worker: a profile comes first, then queries, whose results come in their order. */
export function serve(): void {
  let engine: Engine | undefined;
  const reply = (message: Reply) => (self as unknown as { postMessage(message: Reply): void }).postMessage(message);
  addEventListener('message', ({ data }: MessageEvent<Message>) => {
    const id = 'id' in data ? data.id : 0;
    try {
      if ('profile' in data) {
        engine = new Engine(data.profile);
        reply({ id, result: engine.overview() });
      } else {
        reply({ id, result: finish(engine!.result(data.query.name, data.query.of)) });
      }
    } catch (error) {
      reply({ id, problem: error instanceof Error ? error.message : String(error) });
    }
  });
}
