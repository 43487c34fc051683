import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Client } from '../client';
import type { Queries } from '../engine';

export interface Result<K extends keyof Queries> {
  of: Queries[K]['of'];
  is: Queries[K]['is'];
}

interface Latest<K extends keyof Queries> {
  /** The last result; it may be of a query before. */
  shown?: Result<K>;
  /** Why the last query has none. */
  problem?: string;
}

/** Sends a query whenever it changes; of those that come while one waits for its result, only the last. What is
 * beside the view comes after it (`beside`). */
export function useQuery<K extends keyof Queries>(client: Client, name: K, of: Queries[K]['of'], beside = false): Latest<K> {
  const [latest, setLatest] = useState<Latest<K>>({});
  const key = JSON.stringify(of);
  const wanted = useRef({ key, of });
  const sending = useRef(false);
  const effect = beside ? useEffect : useLayoutEffect;
  effect(() => {
    wanted.current = { key, of };
    if (sending.current) return;
    sending.current = true;
    const next = async (): Promise<void> => {
      const now = wanted.current;
      try {
        const is = await client.query(name, now.of);
        setLatest({ shown: { of: now.of, is } });
      } catch (error) {
        setLatest(({ shown }) => ({ shown, problem: error instanceof Error ? error.message : String(error) }));
      }
      if (wanted.current.key !== now.key) return next();
      sending.current = false;
    };
    void next();
  }, [key]);
  return latest;
}
