/** Pages of an opened file. */
export const VIEWS = ["overview", "tensors", "layout", "metadata", "hex", "files", "compare", "embed"] as const;
export type View = (typeof VIEWS)[number];

/** What the part of the address behind `#` says: enough for a colleague to see the same. */
export interface Route {
  /** What to open; absent for files of this computer, which no link can name. */
  readonly url?: string | undefined;
  /** Files inside vaults, outermost first. */
  readonly inside: readonly string[];
  /** Other servers that may be asked, for files that refer to them. */
  readonly allow: readonly string[];
  readonly view: View;
  readonly tensor?: string | undefined;
  /** Of the hex view: which file, and where in it. */
  readonly part?: number | undefined;
  readonly offset?: number | undefined;
  /** The second model of a comparison. */
  readonly with?: string | undefined;
}

export function parseRoute(hash: string): Route {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const tensor = fields.get("tensor") ?? undefined;
  const view = VIEWS.find((known) => known === fields.get("view"));
  return {
    url: fields.get("url") ?? undefined,
    inside: fields.getAll("inside"),
    allow: fields.getAll("allow"),
    view: view ?? (tensor === undefined ? "overview" : "tensors"),
    tensor,
    part: wholeNumber(fields.get("part")),
    offset: wholeNumber(fields.get("offset")),
    with: fields.get("with") ?? undefined,
  };
}

export function formatRoute(route: Route): string {
  const fields = new URLSearchParams();
  const add = (key: string, value: string | number | undefined): void => {
    if (value !== undefined) fields.append(key, String(value));
  };
  add("url", route.url);
  for (const path of route.inside) add("inside", path);
  for (const origin of route.allow) add("allow", origin);
  // A tensor says by itself which page it is on.
  if (route.view !== "overview" && !(route.view === "tensors" && route.tensor !== undefined)) add("view", route.view);
  add("tensor", route.tensor);
  add("part", route.part);
  add("offset", route.offset);
  add("with", route.with);
  // Slashes and colons are legal behind `#`, and links are read by people.
  return `#${fields.toString().replaceAll("%2F", "/").replaceAll("%3A", ":")}`;
}

/** The same place at another page; what belongs to one page only is left behind. */
export function at(route: Route, change: Partial<Route>): Route {
  const { url, inside, allow } = route;
  return { url, inside, allow, view: "overview", ...(route.with === undefined ? {} : { with: route.with }), ...change };
}

function wholeNumber(text: string | null): number | undefined {
  const number = text === null || !/^\d{1,16}$/.test(text) ? undefined : Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}
