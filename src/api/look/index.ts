/** The verbs that look, as they are loaded: together, because each is small. */
export { diff } from "./diff.ts";
export { inspect } from "./inspect.ts";
export { list } from "./list.ts";
export { map } from "./map.ts";
export { meta } from "./meta.ts";
export { stats } from "./stats.ts";
