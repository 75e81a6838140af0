import { afterAll, beforeAll, expect, it } from "vitest";
import { describeInBrowser } from "./browser.ts";
import { type Models, makeModels } from "./models.ts";
import { scriptBytes } from "./script-size.ts";

describeInBrowser("what the viewer loads", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("paged");
  });
  afterAll(() => models.remove());

  it.each(["demo.gguf", "demo.safetensors"])("at most 60 kB of script before the overview of %s", async (name) => {
    const visit = await viewer().visit();
    viewer().takeServed();
    await visit.choose(models.path(name));
    await visit.page.locator(".overview").waitFor();
    expect(scriptBytes(viewer().takeServed())).toBeLessThan(60_000);
    visit.calm();
    await visit.close();
  });

  it("at most 200 kB for a visit of every page of a model, verified and compared", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    viewer().takeServed();
    await visit.choose(models.path("paged.aero"));
    await visit.tab("Tensors");
    await page
      .getByRole("row", { name: /up_proj/ })
      .first()
      .click();
    await page.getByText("Deviation").waitFor();
    for (const tab of ["Metadata", "Bytes"]) {
      await visit.tab(tab);
      await page.locator(".tree, .fields").waitFor();
    }
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("Whole:").waitFor();
    await visit.tab("Compare");
    await page.locator("main input[type=file]").setInputFiles(models.path("demo.gguf"));
    await page.getByText("Everything that has a name is the same in both.").waitFor();
    const served = viewer().takeServed();
    expect(served).toContain("hasher.js");
    expect(scriptBytes(served)).toBeLessThan(200_000);
    visit.calm();
    await visit.close();
  });
});
