/**
 * A worker that is loaded from an address has the policy that its server sends with it, and static servers send none. A
 * worker from a blob inherits the policy of the page that starts it (CSP 3, "Policy inheritance"). So all our workers
 * start from a blob that imports the script.
 */
export function inheritingScript(script: URL): string {
  return URL.createObjectURL(new Blob([`import ${JSON.stringify(script.href)};`], { type: "text/javascript" }));
}
