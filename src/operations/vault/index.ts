/** What the rest of the program may know of changing vaults, besides the verbs themselves. */
export { CHUNKERS, type ChunkerName } from "../../formats/aerovault/write/chunking.ts";
export { PROFILES, type Profile } from "../../formats/aerovault/write/profiles.ts";
export { checkNewPassword } from "./create.ts";
export { entryPath } from "./tree.ts";
