import type { Container } from "./container.ts";
import type { OpenContext } from "./format.ts";

export interface UpgradeContext extends OpenContext {
  /** Keeps what cannot be read as a tensor of bytes, since nothing else can be made of it. */
  readonly payload?: "wrap" | undefined;
}

/** How files of a format's older layouts become files of its newest one. */
export interface FormatUpgrade {
  /** Refuses what is of the newest layout already, and what nothing can be made of. */
  check(container: Container, context: UpgradeContext): Promise<void>;
  /** The same model as the newest layout has it, to be planned and written. */
  apply(container: Container, context: UpgradeContext): Promise<Container>;
}
