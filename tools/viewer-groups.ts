import { FORMATS } from "../src/formats/registry.ts";

interface Group {
  readonly name: string;
  readonly test: RegExp;
  /** Only what at least so many entries reach; the rest of a folder is in a later group. */
  readonly minShareCount?: number;
}

/**
 * What the page loads together, first what others stand on: a group takes along what it imports, unless an earlier one
 * has it. Groups are folders and entry files. What an overview needs is apart from what only pages and checks need, and
 * no format loads another one's code. What is in no group is loaded by itself: tiers of primitives, for one.
 */
export const VIEWER_GROUPS: readonly Group[] = [
  { name: "base", test: /\/src\/base\/|rolldown.runtime/ },
  // What the page and its worker both use, apart from either: neither may run the other's script.
  { name: "shared", test: /\/viewer\/shared\// },
  { name: "shell", test: /\/node_modules\/preact\/|\/viewer\/(?:app|widgets)\// },
  // What several formats stand on, apart from what only addresses, values or writers need.
  {
    name: "library",
    test: /\/src\/(?:struct|bytes|model)\/[^/]+$|\/src\/bytes\/layers\/(?:base|prefix)|\/src\/formats\/registry\.ts$/,
    minShareCount: 2,
  },
  // Sets name their parts by addresses, wherever they were opened.
  { name: "addresses", test: /\/src\/bytes\/http\/url\.ts$/ },
  { name: "http", test: /\/src\/bytes\/http\// },
  { name: "work", test: /\/viewer\/reader\/(?!worker)/ },
  { name: "values", test: /\/src\/model\/(?:values|ggml)\// },
  { name: "engine", test: /\/src\/primitives\/[^/]+$/ },
  { name: "encoding", test: /\/src\/primitives\/encoding\// },
  { name: "workers", test: /\/src\/workers\/[^/]+$|\/src\/platform\/web\/(?!worker-entry)/ },
  ...FORMATS.map(({ id }) => ({ name: id, test: new RegExp(`/src/formats/${id}/read\\.ts$`) })),
  { name: "embedding", test: /\/src\/(?:embedding|model\/bert)\// },
  { name: "pages", test: /\/viewer\/views\// },
  ...FORMATS.map(({ id }) => ({ name: `${id}-checks`, test: new RegExp(`/src/formats/${id}/verify\\.ts$`) })),
];
