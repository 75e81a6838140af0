import { DelegatingSource } from "./delegating.ts";
import type { Source } from "./source.ts";

/** A source that also closes what it was opened from: a file inside an archive that nobody else holds. */
export function withOwner(source: Source, owner: { close(): Promise<void> }): Source {
  return new OwningSource(source, owner);
}

class OwningSource extends DelegatingSource {
  readonly #owner: { close(): Promise<void> };

  constructor(inner: Source, owner: { close(): Promise<void> }) {
    super(inner);
    this.#owner = owner;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#owner.close();
  }
}
