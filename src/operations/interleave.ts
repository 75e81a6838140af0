/**
 * Several streams at a time, each in its own order; whichever has something next comes next. A stream is asked on only
 * when its last item has been dealt with, so that items which are valid until then stay valid.
 */
export async function* interleave<T>(
  streams: Iterable<() => AsyncIterable<T>>,
  atOnce: number,
): AsyncGenerator<T, void> {
  const waiting = streams[Symbol.iterator]();
  const open = new Set<AsyncIterator<T>>();
  const active = new Map<AsyncIterator<T>, Promise<Answer<T>>>();
  try {
    for (;;) {
      while (active.size < atOnce) {
        const { done, value: start } = waiting.next();
        if (done === true) break;
        const iterator = start()[Symbol.asyncIterator]();
        open.add(iterator);
        active.set(iterator, ask(iterator));
      }
      if (active.size === 0) return;
      const { iterator, result } = await Promise.race(active.values());
      // To the end of the line: a stream that always has something must not keep the others waiting.
      active.delete(iterator);
      if (result.done === true) {
        open.delete(iterator);
        continue;
      }
      yield result.value;
      active.set(iterator, ask(iterator));
    }
  } finally {
    await Promise.allSettled([...open].map((iterator) => iterator.return?.()));
  }
}

interface Answer<T> {
  readonly iterator: AsyncIterator<T>;
  readonly result: IteratorResult<T>;
}

async function ask<T>(iterator: AsyncIterator<T>): Promise<Answer<T>> {
  return { iterator, result: await iterator.next() };
}
