import type { Page } from "playwright-core";
import { expect } from "vitest";
import { manyTensors } from "../cli/small-models.ts";
import type { Viewer } from "./browser.ts";

const FRAMES = 120;
const ROW_HEIGHT = 34;

/** Rows that are kept on either side of the visible ones, once scrolling has ended. */
const MARGIN = 8;

/** Opens a model of `count` tensors and scrolls through their table, counting what the page's thread works. */
export async function scrollRows(viewer: Viewer, count: number): Promise<void> {
  const visit = await viewer.visit();
  const { page } = visit;
  await page.goto(viewer.url);
  const file = { name: "many.safetensors", mimeType: "", buffer: Buffer.from(manyTensors(count)) };
  await page.locator("input[type=file]").first().setInputFiles(file);
  await page.locator(".overview").waitFor();
  await visit.tab("Tensors");
  await page.getByRole("grid", { name: "Tensors" }).waitFor();
  const first = await page.locator(".tensors .virtual-body .name").first().innerText();
  expect(await workOfFrames(page, count)).toBeLessThan(15);
  expect(await page.locator(".tensors .virtual-body .name").first().innerText()).not.toBe(first);
  expect(await page.locator(".tensors .virtual-body .row").count()).toBeLessThan(80);
  // Far away, what is on screen is drawn at once, in the elements that are there; what is beyond the edges waits.
  const { fresh, drawn, settled, screen } = await leap(page);
  expect(fresh).toBe(0);
  expect(drawn).toEqual(Array.from({ length: screen }, (_, i) => 10_002 + i));
  expect(settled).toEqual(Array.from({ length: screen + 2 * MARGIN }, (_, i) => 10_002 - MARGIN + i));
  visit.calm();
  await visit.close();
}

/** Milliseconds of work for each frame, while the table scrolls by rows and, now and then, far. */
async function workOfFrames(page: Page, count: number): Promise<number> {
  await page.evaluate(() => new Promise((resolve) => requestIdleCallback(resolve))); // opening has ended
  // Time of the page's own thread: what other programs of this machine take from it is no fault of the page's.
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async (): Promise<number> => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
  };
  const before = await busy();
  await page.evaluate(
    async ({ frames, far }) => {
      const grid = document.querySelector(".tensors") as HTMLElement;
      for (let i = 0; i < frames; i++) {
        grid.scrollTop += i % 40 === 39 ? far : 700;
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    },
    { frames: FRAMES, far: 4 * count },
  );
  return ((await busy()) - before) / FRAMES;
}

interface Leap {
  /** Elements that the first drawing after the leap made. */
  readonly fresh: number;
  /** Numbers of the rows that it drew. */
  readonly drawn: readonly number[];
  /** Numbers of the rows that are there in the end. */
  readonly settled: readonly number[];
  /** How many rows fit on the screen. */
  readonly screen: number;
}

/** Scrolls to row 10 000 at once. Looks at the first drawing itself, not at a time after the leap. */
function leap(page: Page): Promise<Leap> {
  return page.evaluate(
    async ({ rowHeight, margin }) => {
      const grid = document.querySelector(".tensors") as HTMLElement;
      const rows = (): Element[] => [...grid.querySelectorAll(".virtual-body .row")];
      const numbers = (): number[] => rows().map((row) => Number(row.getAttribute("aria-rowindex")));
      const screen = Math.ceil(grid.clientHeight / rowHeight);
      const before = new Set(rows());
      const looked = new Promise<Pick<Leap, "fresh" | "drawn">>((resolve) => {
        const observer = new MutationObserver(() => {
          observer.disconnect();
          resolve({ fresh: rows().filter((row) => !before.has(row)).length, drawn: numbers() });
        });
        observer.observe(grid, { subtree: true, childList: true, attributes: true });
      });
      grid.scrollTop = 10_000 * rowHeight;
      const drawing = await looked;
      while (rows().length < screen + 2 * margin) await new Promise((resolve) => requestAnimationFrame(resolve));
      return { ...drawing, settled: numbers(), screen };
    },
    { rowHeight: ROW_HEIGHT, margin: MARGIN },
  );
}
