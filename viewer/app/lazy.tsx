import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorPanel } from "./error-panel.tsx";

export interface LazyProps<P extends object> {
  /** Must be the same function in every render. */
  readonly load: () => Promise<ComponentType<P>>;
  readonly props: P;
}

/** A component whose code is loaded when it is first shown. */
export function Lazy<P extends object>({ load, props }: LazyProps<P>) {
  const [Loaded, setLoaded] = useState<ComponentType<P> | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    // A component is a function, and setState would call a function to compute the next value.
    load().then((component) => setLoaded(() => component), setError);
  }, [load]);
  if (error !== undefined) return <ErrorPanel title="Cannot load this page" error={error} />;
  return Loaded === undefined ? null : <Loaded {...props} />;
}
