export { aerovault } from "./index.ts";
export { vaultArchive } from "./vault-archive.ts";
