import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Overview } from "../shared/protocol.ts";
import { ErrorPanel } from "./error-panel.tsx";
import type { Route, View } from "./route.ts";
import type { Session } from "./session.ts";

export interface ViewProps {
  readonly session: Session;
  readonly overview: Overview;
  readonly route: Route;
}

type LazyName = Exclude<View, "overview">;

const LOADERS: Readonly<Record<LazyName, () => Promise<ComponentType<ViewProps>>>> = {
  tensors: async () => (await import("../views/tensors/tensors-page.tsx")).TensorsPage,
  layout: async () => (await import("../views/layout/layout-page.tsx")).LayoutPage,
  metadata: async () => (await import("../views/metadata-page.tsx")).MetadataPage,
  hex: async () => (await import("../views/hex-page.tsx")).HexPage,
  files: async () => (await import("../views/files-page.tsx")).FilesPage,
  compare: async () => (await import("../views/compare-page.tsx")).ComparePage,
  embed: async () => (await import("../views/embed-page.tsx")).EmbedPage,
};

/** The page of a view. */
export function LazyView({ view, ...props }: ViewProps & { readonly view: LazyName }) {
  return <Lazy load={LOADERS[view]} props={props} />;
}

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
