import { afterAll, beforeAll, expect, it } from "vitest";
import { describeInBrowser } from "./browser.ts";
import { DAMAGE_OFFSET, type Models, makeModels } from "./models.ts";

describeInBrowser("layout, bytes and metadata in the viewer", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("paged");
  });
  afterAll(() => models.remove());

  it("verifying a whole file says so, a damaged one names the page and the tensor and paints them red", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("paged.aero"));
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("Whole: everything agrees with its digests").waitFor();
    await visit.choose(models.path("broken.aero"));
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("Damaged: 3 faults.").waitFor();
    const findings = await page.locator(".findings").innerText();
    expect(findings).toContain("integrity/aero.page-hash");
    expect(findings).toContain("model.layers.1.self_attn.o_proj.weight");
    // The damaged byte is in a red lane: its colour is looked for where the map has that address.
    const isRed = await page.evaluate(
      ({ offset, total }) => {
        const canvas = document.querySelector(".map canvas") as HTMLCanvasElement;
        const lane = Math.floor((offset / total) * 14);
        const x = Math.floor(((offset / total) * 14 - lane) * canvas.width);
        const y = Math.floor(((lane * 27 + 12) / (14 * 27)) * canvas.height);
        const [red = 0, green = 0] = canvas.getContext("2d")?.getImageData(x, y, 1, 1).data ?? [];
        return red > 150 && green < 80;
      },
      { offset: DAMAGE_OFFSET, total: 2_832_896 },
    );
    expect(isRed).toBe(true);
    await visit.screenshot("layout");
    visit.calm();
    await visit.close();
  });

  it("the map is walked by keys down to single bytes, and a click or Enter opens what is there", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("paged.aero"));
    await visit.tab("Layout");
    const map = page.getByRole("application", { name: /^Layout of 2\.83 MB/ });
    await map.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await expect
      .poll(() => page.locator(".map figcaption").innerText())
      .toMatch(/TOC[\s\S]*integrity · 496 B at 0x00000060/);
    for (let i = 0; i < 14; i++) await page.keyboard.press("+");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Fields here" }).waitFor();
    expect(page.url()).toContain("view=hex&part=0&offset=96");
    expect(await page.getByRole("region", { name: "Fields" }).innerText()).toMatch(/toc\.entry_count\s+6/);
    visit.calm();
    await visit.close();
  });

  it("bytes have the names of the format beside them, and pages turn by keys", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("demo.gguf"));
    await visit.tab("Bytes");
    const fields = page.getByRole("region", { name: "Fields" });
    await fields.waitFor();
    expect(await fields.innerText()).toMatch(
      /header\.magic\s+"GGUF"[\s\S]*header\.tensor_count\s+39[\s\S]*metadata_kv\[0\]\.key/,
    );
    await page.getByRole("region", { name: /^Bytes;/ }).focus();
    await page.keyboard.press("End");
    await expect.poll(() => page.locator(".hex-line").last().innerText()).toMatch(/^0x002b1e3/);
    await page.getByLabel("Offset").fill("0x10");
    await page.getByLabel("Offset").press("Enter");
    await expect.poll(() => page.locator(".hex-line").first().innerText()).toMatch(/^0x00000010/);
    visit.calm();
    await visit.close();
  });

  it("a vocabulary of 128 000 tokens opens lazily and is searched", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    const { vocabularyGguf } = await import("./vocabulary-gguf.ts");
    await page.goto(viewer().url);
    const file = { name: "vocabulary.gguf", mimeType: "", buffer: Buffer.from(vocabularyGguf(128_000)) };
    await page.locator("input[type=file]").first().setInputFiles(file);
    await visit.tab("Metadata");
    await page.getByRole("button", { name: /tokenizer\.ggml\.tokens/ }).click();
    const list = page.getByRole("grid", { name: "Elements of tokenizer.ggml.tokens" });
    await list.waitFor();
    expect(await list.getAttribute("aria-rowcount")).toBe("128000");
    await list.focus();
    await page.keyboard.press("End");
    await expect.poll(() => list.innerText()).toContain("token-127999");
    expect(await list.locator(".row").count()).toBeLessThan(60);
    await page.getByRole("searchbox").fill("token-12345");
    await page.getByText("11 found").waitFor();
    visit.calm();
    await visit.close();
  });
});
