import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Overview } from "../reader/protocol.ts";
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

/** A page whose code comes when it is first looked at. */
export function LazyView({ view, ...props }: ViewProps & { readonly view: LazyName }) {
  const [Loaded, setLoaded] = useState<ComponentType<ViewProps> | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    // A component is a function, and so is what setState takes to make the next value of the old.
    LOADERS[view]().then((component) => setLoaded(() => component), setError);
  }, [view]);
  if (error !== undefined) return <ErrorPanel title="Cannot load this page" error={error} />;
  return Loaded === undefined ? null : <Loaded {...props} />;
}
