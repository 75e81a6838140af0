import type { ComponentType } from "preact";
import type { Overview } from "../shared/protocol.ts";
import { Lazy } from "./lazy.tsx";
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
