import { FORMATS } from "../src/formats/registry.ts";
import { formatContract, type Golden } from "./contracts/format-contract.ts";
import { fixtureNames, loadFixture } from "./support/fixtures.ts";

/** Files that cannot come back byte for byte: we write little-endian only. */
const OTHER_LAYOUTS = new Set(["gguf/big-endian"]);

for (const format of FORMATS) {
  const goldens = fixtureNames(format.id).map((name): Golden => {
    const layout = OTHER_LAYOUTS.has(`${format.id}/${name}`) ? "other" : "standard";
    return { name, bytes: loadFixture(format.id, name), layout };
  });
  formatContract(format, goldens);
}
