export { aerovault, vaultArchive } from "./format.ts";
