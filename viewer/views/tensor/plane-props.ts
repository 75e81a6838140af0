import type { Session } from "../../app/session.ts";
import type { Plane } from "../../shared/planes.ts";
import type { Overview } from "../../shared/protocol.ts";
import type { TensorFacts } from "./tensor-page.tsx";

/** A place in a plane. */
export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** A tensor of what is open. */
export interface TensorPlace {
  readonly session: Session;
  readonly overview: Overview;
  readonly facts: TensorFacts;
}

/** What a plane of it is drawn from, as a picture or as numbers. */
export interface PlaneProps extends TensorPlace {
  /** Which slice of the outer dimensions. */
  readonly leading: readonly number[];
  readonly plane: Plane;
  readonly cursor: Cell;
}
