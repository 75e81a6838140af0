import type { Session } from "../../app/session.ts";
import type { Plane } from "../../shared/planes.ts";
import type { Overview } from "../../shared/protocol.ts";
import type { TensorFacts } from "./tensor-page.tsx";

/** A place in a plane. */
export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** A tensor of the opened content. */
export interface TensorPlace {
  readonly session: Session;
  readonly overview: Overview;
  readonly facts: TensorFacts;
}

/** The data for drawing a plane of it, as a picture or as numbers. */
export interface PlaneProps extends TensorPlace {
  /** The slice of the outer dimensions. */
  readonly leading: readonly number[];
  readonly plane: Plane;
  readonly cursor: Cell;
}
