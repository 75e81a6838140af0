import { FORMATS } from "../src/formats/registry.ts";

interface Group {
  readonly name: string | ((id: string) => string | null);
  readonly test: RegExp;
  /** Includes only modules that at least this many entries reach. A later group has the rest of the folder. */
  readonly minShareCount?: number;
}

/**
 * The files of the viewer's bundle, lower layers first: a group includes its imports, unless an earlier group has them.
 * Groups are folders and entry files. Code for the overview is separate from code that only pages and checks need, and
 * no format loads another one's code. Modules in no group are loaded one by one, for example tiers of primitives.
 */
export const VIEWER_GROUPS: readonly Group[] = [
  { name: "base", test: /\/src\/base\/|rolldown.runtime/, minShareCount: 2 },
  // Code that the page and its worker share is separate from both: neither may run the other's script.
  { name: "shared", test: /\/viewer\/shared\// },
  // With the widgets that the overview has; those of other pages are with these.
  { name: "shell", test: /\/node_modules\/preact\/|\/viewer\/app\// },
  // Code that several formats use, without code that only addresses, values or writers need. Of the layers, every Source
  // extends base and every opening shares its first read. The others are for addresses, and load with them.
  {
    name: "library",
    test: /\/src\/(?:struct|bytes|model|model\/origin)\/[^/]+$|\/src\/bytes\/layers\/(?:base|opening-read)|\/src\/formats\/registry\.ts$/,
    minShareCount: 2,
  },
  // Sets name their parts by addresses, even if they were opened elsewhere: checking one needs no client.
  { name: "addresses", test: /\/src\/bytes\/http\/url\.ts$/ },
  { name: "http", test: /\/src\/bytes\/http\// },
  { name: "work", test: /\/viewer\/reader\/(?!worker)/ },
  { name: "values", test: /\/src\/model\/(?:values|ggml)\// },
  { name: "engine", test: /\/src\/(?:primitives|kernels)\/[^/]+$/ },
  { name: "encoding", test: /\/src\/primitives\/encoding\// },
  // Each algorithm without its tiers is a chunk: it is not in the bundle of the first format that uses it.
  {
    name: (id) => /([^/]+)\.ts$/.exec(id)?.[1] ?? null,
    test: /\/src\/primitives\/(?:digest|compress|cipher|crypto)\/(?!.*-(?:wasm|javascript|web|webcrypto)\.ts$)/,
    minShareCount: 2,
  },
  { name: "workers", test: /\/src\/workers\/[^/]+$|\/src\/platform\/web\/(?!worker-entry)/ },
  ...FORMATS.map(({ id }) => ({ name: id, test: new RegExp(`/src/formats/${id}/read\\.ts$`) })),
  { name: "embedding", test: /\/src\/(?:embedding|model\/bert)\// },
  { name: "pages", test: /\/viewer\/(?:views|widgets)\// },
  ...FORMATS.map(({ id }) => ({ name: `${id}-checks`, test: new RegExp(`/src/formats/${id}/verify\\.ts$`) })),
];
