import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorPanel } from "./error-panel.tsx";

export interface LazyProps<P extends object> {
  /** Must be the same function from one drawing to the next. */
  readonly load: () => Promise<ComponentType<P>>;
  readonly props: P;
}

/** Something whose code comes when it is first shown. */
export function Lazy<P extends object>({ load, props }: LazyProps<P>) {
  const [Loaded, setLoaded] = useState<ComponentType<P> | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    // A component is a function, and so is what setState takes to make the next value of the old.
    load().then((component) => setLoaded(() => component), setError);
  }, [load]);
  if (error !== undefined) return <ErrorPanel title="Cannot load this page" error={error} />;
  return Loaded === undefined ? null : <Loaded {...props} />;
}
