import { readFileSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { findChromium, type StaticServer, startStatic } from "../test/viewer/chromium.ts";

/**
 * Runs in the page: records when a file is chosen and when its overview is shown. It is text, so that this file does
 * not need DOM types.
 */
const WATCH = `
  let chosen = 0;
  const input = document.querySelector("input[type=file]");
  input.addEventListener("change", () => { chosen = performance.now(); }, { capture: true });
  globalThis.seen = new Promise((resolve) => {
    new MutationObserver((_, observer) => {
      if (document.querySelector(".overview") === null) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - chosen), 0));
    }).observe(document.body, { childList: true, subtree: true });
  });
  undefined;
`;

/** The same for a verification, from the click on. Playwright itself checks only twice a second. */
const VERIFY = `
  new Promise((resolve) => {
    const panel = document.querySelector(".verify");
    const started = performance.now();
    new MutationObserver((_, observer) => {
      if (!panel.querySelector("[role=status]").textContent.includes("Whole:")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started), 0));
    }).observe(panel, { childList: true, subtree: true, characterData: true });
    panel.querySelector("button.primary").click();
  })
`;

/** The viewer in a real browser, from a static server. */
export class ViewerPage {
  readonly page: Page;
  readonly server: StaticServer;
  readonly #browser: Browser;

  private constructor(browser: Browser, server: StaticServer, page: Page) {
    this.#browser = browser;
    this.server = server;
    this.page = page;
  }

  /** Undefined if there is no browser. */
  static async open(): Promise<ViewerPage | undefined> {
    const executablePath = findChromium();
    if (executablePath === undefined) return undefined;
    const server = await startStatic();
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(server.url);
    await page.getByRole("heading", { level: 1 }).waitFor();
    return new ViewerPage(browser, server, page);
  }

  /**
   * Opens a file. Returns the milliseconds until the frame that shows its overview, from when the page has the file.
   */
  async choose(path: string): Promise<number> {
    await this.page.evaluate(WATCH);
    await this.page.locator("input[type=file]").first().setInputFiles(path);
    return this.page.evaluate<number>("globalThis.seen");
  }

  /** Verifies on the layout page. Returns the milliseconds from the click to the frame that reports success. */
  async verify(): Promise<number> {
    await this.page.locator(".verify button.primary").waitFor();
    return this.page.evaluate<number>(VERIFY);
  }

  tab(name: string): Promise<void> {
    return this.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click();
  }

  /** Peak resident bytes of the largest renderer. The page and its workers are one process. */
  async peakMemory(): Promise<number> {
    const session = await this.#browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    const peaks = processInfo
      .filter(({ type }) => type === "renderer")
      .map(({ id }) => /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1]);
    return 1024 * Math.max(...peaks.map(Number));
  }

  async close(): Promise<void> {
    await this.#browser.close();
    this.server.close();
  }
}
