import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { formatValue } from "../../src/base/figures.ts";
import { callTare } from "../cli/run-tare.ts";
import { describeInBrowser } from "./browser.ts";
import { type Models, makeModels } from "./models.ts";
import { scrollRows } from "./scrolling.ts";

const NAME = "model.layers.0.mlp.up_proj.weight";

describeInBrowser("tensors in the viewer", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("quantized");
  });
  afterAll(() => models.remove());

  it("the table sorts, filters and groups", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("demo.gguf"));
    await visit.tab("Tensors");
    const names = async (): Promise<string[]> => page.locator(".tensors .virtual-body .name").allInnerTexts();
    await page.getByRole("button", { name: "Name" }).click();
    await expect.poll(names).toSatisfy(([first]: string[]) => first === "lm_head.weight");
    await page.getByRole("button", { name: "Size" }).click();
    await page.getByRole("button", { name: "Size" }).click();
    await expect.poll(names).toSatisfy(([first]: string[]) => first?.includes(".mlp.") === true);
    expect(await page.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort")).toBe("descending");
    await page.getByRole("searchbox").fill("layers.1 norm f32");
    await expect.poll(names).toHaveLength(2);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("checkbox").check();
    const group = page.locator(".row.group").first();
    const layer = (await group.locator(".name").innerText()).replace("▾", "").trim();
    await group.click();
    await expect.poll(names).toSatisfy((shown: string[]) => shown.every((name) => !name.startsWith(`${layer}.`)));
    visit.calm();
    await visit.close();
  });

  it("keys walk the table and open a tensor", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("demo.gguf"));
    await visit.tab("Tensors");
    await page.getByRole("grid", { name: "Tensors" }).focus();
    for (const key of ["ArrowDown", "ArrowDown", "End", "Home", "ArrowDown"]) await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "model.layers.0.post_attention_layernorm.weight" }).waitFor();
    visit.calm();
    await visit.close();
  });

  it("a tensor has the statistics that stats has, and its picture reads what it shows", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    const { out } = await callTare(["stats", models.path("q4.gguf"), NAME, "--json"]);
    const [expected] = (JSON.parse(out) as { tensors: { min: number; max: number; zero: number }[] }).tensors;
    await visit.choose(models.path("q4.gguf"));
    await visit.tab("Tensors");
    await page.getByRole("row", { name: new RegExp(NAME) }).click();
    const text = async (): Promise<string> => page.locator("main").innerText();
    await expect.poll(text).toContain("Deviation");
    expect(await text()).toContain(formatValue(expected?.min));
    expect(await text()).toContain(formatValue(expected?.max));
    await expect.poll(text).toContain("drawn from 50.5 kB");
    const map = page.getByRole("application", { name: /^Heat map of rows 0–703, columns 0–127/ });
    await map.focus();
    await page.keyboard.press("+");
    await page.getByRole("application", { name: /^Heat map of rows 176–527, columns 32–95/ }).waitFor();
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByRole("spinbutton", { name: "Row" }).inputValue()).toBe("176");
    // Blocks as stored: a scale and sixteen bytes of nibbles.
    expect(await page.getByRole("article", { name: "Block 0" }).innerText()).toMatch(
      /d f16\s+0\.0\d+[\s\S]*qs u8\[16\]/,
    );
    visit.calm();
    await visit.screenshot("tensor");
    await visit.close();
  });

  it("what is downloaded is what cat gives", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("q4.gguf"));
    await visit.tab("Tensors");
    await page.getByRole("row", { name: new RegExp(NAME) }).click();
    const take = async (button: string): Promise<Buffer> => {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: button }).click(),
      ]);
      return readFileSync(await download.path());
    };
    const raw = await callTare(["cat", models.path("q4.gguf"), NAME]);
    expect(await take("Download stored bytes")).toEqual(raw.stdout);
    const npy = await callTare(["cat", models.path("q4.gguf"), NAME, "--as", "npy", "--dtype", "f32"]);
    expect(await take("Download .npy")).toEqual(npy.stdout);
    visit.calm();
    await visit.close();
  });

  it("20 000 rows scroll for little work a frame", () => scrollRows(viewer(), 20_000));
});
