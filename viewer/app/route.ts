/** Pages of an opened file. */
const VIEWS = ["overview", "tensors", "layout", "metadata", "hex", "files", "compare", "embed"] as const;
export type View = (typeof VIEWS)[number];

/** The part of the address after `#`: enough for a colleague to see the same page. */
export interface Route {
  /** What to open; absent for local files, which no link can name. */
  readonly url?: string | undefined;
  /** Files inside vaults, outermost first. */
  readonly inside: readonly string[];
  /** Other servers that may be contacted, for files that refer to them. */
  readonly allow: readonly string[];
  readonly view: View;
  readonly tensor?: string | undefined;
  /** For the hex view: which file, and the offset in it. */
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
  // A tensor already implies its page.
  if (route.view !== "overview" && !(route.view === "tensors" && route.tensor !== undefined)) add("view", route.view);
  add("tensor", route.tensor);
  add("part", route.part);
  add("offset", route.offset);
  add("with", route.with);
  // Slashes and colons are legal after `#`, and people read links.
  return `#${fields.toString().replaceAll("%2F", "/").replaceAll("%3A", ":")}`;
}

/** The same content at another page; drops fields that belong to one page only. */
export function at(route: Route, change: Partial<Route>): Route {
  const { url, inside, allow } = route;
  return { url, inside, allow, view: "overview", ...(route.with === undefined ? {} : { with: route.with }), ...change };
}

function wholeNumber(text: string | null): number | undefined {
  const number = text === null || !/^\d{1,16}$/.test(text) ? undefined : Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}
