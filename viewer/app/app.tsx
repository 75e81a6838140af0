import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { isTareError } from "../../src/base/errors.ts";
import type { Overview } from "../shared/protocol.ts";
import { BLOCKED, lastName } from "../shared/protocol.ts";
import { ErrorPanel } from "./error-panel.tsx";
import { Lazy, LazyView } from "./lazy-view.tsx";
import { OverviewPage } from "./overview.tsx";
import { PasswordDialog } from "./password-dialog.tsx";
import { at, formatRoute, parseRoute, type Route, type View } from "./route.ts";
import { Session } from "./session.ts";
import { droppedFiles, StartPage } from "./start-page.tsx";

const TITLES: Readonly<Record<View, string>> = {
  overview: "Overview",
  tensors: "Tensors",
  layout: "Layout",
  metadata: "Metadata",
  hex: "Bytes",
  files: "Files",
  compare: "Compare",
  embed: "Embed",
};

/** The pages that make sense for the opened content. */
function viewsFor({ kind, embeds }: Overview): readonly View[] {
  if (kind === "unreadable") return ["overview", "layout", "hex"];
  if (kind === "archive") return ["overview", "files", "layout", "hex", "compare"];
  const common: View[] = ["overview", "tensors", "layout", "metadata", "hex", "compare"];
  return embeds === "yes" ? [...common, "embed"] : common;
}

/**
 * The address changes without a reload, except if other content is to be read: the policy of a page allows only one
 * place.
 */
function go(route: Route): void {
  const before = parseRoute(location.hash);
  const isAllowedMore = route.allow.some((origin) => !before.allow.includes(origin));
  const isElsewhere = route.url !== before.url || route.with !== before.with || isAllowedMore;
  location.hash = formatRoute(route);
  if (isElsewhere && (route.url !== undefined || route.with !== undefined)) location.reload();
}

export function App() {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const holder = useRef<Session | undefined>(undefined);
  holder.current ??= new Session(() => redraw(undefined));
  const session = holder.current;
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useAddress(session, setRoute);
  const isDragging = useDrop(session);
  const { phase, question } = session.state;
  const { current } = session;
  useEffect(() => {
    document.title = current === undefined ? "tare" : `${lastName(current.label)} · tare`;
  }, [current]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <TopBar session={session} route={route} />
      {current === undefined ? null : <Tabs current={current} route={route} />}
      <main id="main" tabIndex={-1}>
        {phase.kind === "start" ? (
          <StartPage
            comparing={route.with}
            onFiles={(files) => openFiles(session, files)}
            onUrl={(url) => go({ url, inside: [], allow: [], view: route.view, with: route.with })}
          />
        ) : null}
        {phase.kind === "opening" ? (
          <p class="busy" role="status">
            Opening <span class="mono">{lastName(phase.label)}</span> …
          </p>
        ) : null}
        {phase.kind === "choosing" ? <Chooser session={session} phase={phase} /> : null}
        {phase.kind === "failed" ? (
          <div class="narrow">
            <Failure phase={phase} route={route} />
          </div>
        ) : null}
        {current === undefined ? null : <Page session={session} current={current} route={route} />}
      </main>
      {isDragging ? <div class="drop-hint">Drop to open</div> : null}
      {question === undefined ? null : <PasswordDialog key={question.problem} question={question} />}
    </>
  );
}

function Page({
  session,
  current,
  route,
}: {
  readonly session: Session;
  readonly current: Overview;
  readonly route: Route;
}) {
  const view = viewsFor(current).includes(route.view) ? route.view : "overview";
  if (view === "overview") return <OverviewPage overview={current} route={route} />;
  return <LazyView key={`${current.target} ${view}`} view={view} session={session} overview={current} route={route} />;
}

const loadRedirectPanel = async () => (await import("../views/redirect-panel.tsx")).RedirectPanel;

function Failure({
  phase,
  route,
}: {
  readonly phase: Extract<Session["state"]["phase"], { readonly kind: "failed" }>;
  readonly route: Route;
}) {
  const { label, error } = phase;
  const title = `Cannot open ${lastName(label)}`;
  if (!isTareError(error) || error.code !== BLOCKED) return <ErrorPanel title={title} error={error} />;
  const allow = (origin: string): void => go({ ...route, allow: [...route.allow, origin] });
  return <Lazy load={loadRedirectPanel} props={{ title, error, url: label, onAllow: allow }} />;
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function openFiles(session: Session, files: Parameters<Session["openFiles"]>[0]): void {
  const { url, with: other } = parseRoute(location.hash);
  // An address that waits to be compared with a local file still waits.
  if (url !== undefined || other === undefined) leaveAddress();
  void session.openFiles(files);
}

/** The linked content is no longer the one on screen. */
function leaveAddress(): void {
  history.replaceState(null, "", location.pathname + location.search);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function TopBar({ session, route }: { readonly session: Session; readonly route: Route }) {
  const { phase } = session.state;
  const stack = phase.kind === "open" ? phase.stack : [];
  return (
    <header class="top">
      <a
        class="mark"
        href={location.pathname}
        onClick={(event) => {
          event.preventDefault();
          leaveAddress();
          session.start();
        }}
      >
        tare
      </a>
      <nav class="crumbs" aria-label="What is open">
        {stack.map((overview, depth) =>
          depth === stack.length - 1 ? (
            <span key={overview.target} class="mono" title={overview.label} aria-current="location">
              {lastName(overview.label)}
            </span>
          ) : (
            <button
              key={overview.target}
              type="button"
              class="crumb mono"
              onClick={() => {
                session.leaveTo(depth + 1);
                go(at(route, { inside: route.inside.slice(0, depth), view: "files" }));
              }}
            >
              {lastName(overview.label)}
            </button>
          ),
        )}
      </nav>
      {phase.kind === "open" && route.url !== undefined ? <CopyLink /> : null}
      {phase.kind === "start" || phase.kind === "opening" ? null : (
        <button
          type="button"
          class="quiet"
          onClick={() => {
            leaveAddress();
            session.start();
          }}
        >
          Open another
        </button>
      )}
    </header>
  );
}

function Tabs({ current, route }: { readonly current: Overview; readonly route: Route }) {
  const bar = useRef<HTMLElement>(null);
  // On a narrow screen the tabs scroll, and a link may open any of them.
  useEffect(() => {
    const chosen = bar.current?.querySelector("[aria-current]");
    chosen?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current.target, route.view]);
  return (
    <nav class="tabs" aria-label="Views" ref={bar}>
      {viewsFor(current).map((view) => (
        <a key={view} href={formatRoute(at(route, { view }))} aria-current={view === route.view ? "page" : undefined}>
          {TITLES[view]}
        </a>
      ))}
    </nav>
  );
}

function Chooser({
  session,
  phase,
}: {
  readonly session: Session;
  readonly phase: Extract<Session["state"]["phase"], { readonly kind: "choosing" }>;
}) {
  return (
    <div class="narrow">
      <h1>Which one?</h1>
      <p class="lead">There is more than one model among these files.</p>
      <ul class="rows">
        {phase.candidates.map((path) => (
          <li key={path}>
            <button type="button" class="link mono" onClick={() => void session.openFiles(phase.files, path)}>
              {path}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Opens the content that the address names, and follows it from page to page. */
function useAddress(session: Session, setRoute: (route: Route) => void): void {
  useEffect(() => {
    const first = parseRoute(location.hash);
    let opened = first.url;
    if (first.url !== undefined) void session.openUrl(first.url, first.inside, first.allow);
    const follow = (): void => {
      const route = parseRoute(location.hash);
      // Back and forward across addresses: the policy of this page allows only the address it was loaded with.
      if (route.url !== opened && route.url !== undefined) location.reload();
      opened = route.url;
      setRoute(route);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
}

/** Files dropped anywhere are opened. */
function useDrop(session: Session): boolean {
  const [isDragging, setDragging] = useState(false);
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(true);
    };
    const leave = (event: DragEvent): void => {
      if (event.relatedTarget === null) setDragging(false);
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(false);
      if (event.dataTransfer === null) return;
      void droppedFiles(event.dataTransfer).then((files) => {
        if (files.length > 0) openFiles(session, files);
      });
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return isDragging;
}

/** How long the button says that it worked. */
const SAID_MS = 2000;

/** Copies the address of what is on screen: the file, and the page, tensor or byte in it. */
export function CopyLink() {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    // Pages without TLS have no clipboard: then the link is shown, to be copied by hand.
    if (navigator.clipboard === undefined) prompt("The link of this page", location.href);
    else void navigator.clipboard.writeText(location.href).then(() => setCopied(true));
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-live="polite">
      {isCopied ? "Link copied" : "Copy link"}
    </button>
  );
}
