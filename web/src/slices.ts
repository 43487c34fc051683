// Long work in slices: it stops now and then, so that the thread it runs on can do something else.
// In a worker it runs to its end; on the thread of the page (where a browser refuses workers) a slice
// at a time.

export type Work<T> = Generator<undefined, T>;

/** Visits between two stops: about a millisecond. */
const slice = 1 << 14;

export function* each(count: number, visit: (i: number) => void): Work<void> {
  for (let from = 0; from < count; from += slice) {
    if (from > 0) yield;
    const to = Math.min(count, from + slice);
    for (let i = from; i < to; i++) visit(i);
  }
}

/** All of it at once. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Some milliseconds of it at a time. */
export async function inSlices<T>(work: Work<T>, budget = 20): Promise<T> {
  for (;;) {
    const until = performance.now() + budget;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (performance.now() < until);
    await new Promise((resume) => setTimeout(resume));
  }
}
