import { it } from "vitest";
import { describeInBrowser } from "./browser.ts";
import { scrollRows } from "./scrolling.ts";

describeInBrowser("long tables in the viewer", (viewer) => {
  it("100 000 rows scroll for little work a frame", () => scrollRows(viewer(), 100_000));
});
