import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { tare } from "../cli/run-tare.ts";
import { manyTensors } from "../cli/small-models.ts";
import { describeInBrowser } from "./browser.ts";
import { type Models, makeModels } from "./models.ts";

const NAME = "model.layers.0.mlp.up_proj.weight";
const FRAMES = 120;

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
    const { out } = await tare(["stats", models.path("q4.gguf"), NAME, "--json"]);
    const [expected] = (JSON.parse(out) as { tensors: { min: number; max: number; zero: number }[] }).tensors;
    await visit.choose(models.path("q4.gguf"));
    await visit.tab("Tensors");
    await page.getByRole("row", { name: new RegExp(NAME) }).click();
    const text = async (): Promise<string> => page.locator("main").innerText();
    await expect.poll(text).toContain("Deviation");
    expect(await text()).toContain(String(Number(expected?.min.toPrecision(5))));
    expect(await text()).toContain(String(Number(expected?.max.toPrecision(5))));
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
    const raw = await tare(["cat", models.path("q4.gguf"), NAME]);
    expect(await take("Download stored bytes")).toEqual(raw.stdout);
    const npy = await tare(["cat", models.path("q4.gguf"), NAME, "--as", "npy", "--dtype", "f32"]);
    expect(await take("Download .npy")).toEqual(npy.stdout);
    visit.calm();
    await visit.close();
  });

  it("100 000 rows scroll for little work a frame", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await page.goto(viewer().url);
    const file = { name: "many.safetensors", mimeType: "", buffer: Buffer.from(manyTensors(100_000)) };
    await page.locator("input[type=file]").first().setInputFiles(file);
    await page.locator(".overview").waitFor();
    await visit.tab("Tensors");
    await page.getByRole("grid", { name: "Tensors" }).waitFor();
    await page.waitForTimeout(500);
    // Time of the page's own thread: what other programs of this machine take from it is no fault of the page's.
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const busy = async (): Promise<number> => {
      const { metrics } = await session.send("Performance.getMetrics");
      return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
    };
    const before = await busy();
    const first = await page.locator(".tensors .virtual-body .name").first().innerText();
    await page.evaluate(async (frames) => {
      const grid = document.querySelector(".tensors") as HTMLElement;
      for (let i = 0; i < frames; i++) {
        grid.scrollTop += i % 40 === 39 ? 400_000 : 700;
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    }, FRAMES);
    const each = ((await busy()) - before) / FRAMES;
    expect(each).toBeLessThan(15);
    expect(await page.locator(".tensors .virtual-body .name").first().innerText()).not.toBe(first);
    expect(await page.locator(".tensors .virtual-body .row").count()).toBeLessThan(80);
    // Far away, what is on screen is drawn at once, in the elements that are there; what is beyond the edges waits.
    const leap = await page.evaluate(async () => {
      const grid = document.querySelector(".tensors") as HTMLElement;
      const rows = (): Element[] => [...grid.querySelectorAll(".virtual-body .row")];
      const numbers = (): number[] => rows().map((row) => Number(row.getAttribute("aria-rowindex")));
      const before = new Set(rows());
      grid.scrollTop = 340_000;
      for (let i = 0; i < 2; i++) await new Promise((resolve) => requestAnimationFrame(resolve));
      const [fresh, drawn] = [rows().filter((row) => !before.has(row)).length, numbers()];
      await new Promise((resolve) => setTimeout(resolve, 500));
      return { fresh, drawn, settled: numbers(), screen: Math.ceil(grid.clientHeight / 34) };
    });
    expect(leap.fresh).toBe(0);
    expect(leap.drawn).toEqual(Array.from({ length: leap.screen }, (_, i) => 10_002 + i));
    expect(leap.settled).toEqual(Array.from({ length: leap.screen + 16 }, (_, i) => 9_994 + i));
    visit.calm();
    await visit.close();
  });
});
