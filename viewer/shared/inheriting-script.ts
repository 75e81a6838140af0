/**
 * A worker from an address has the policy that its server sends with it, and static servers send none; one from a blob has
 * the policy of whoever starts it (CSP 3, "Policy inheritance"). So all of ours start from a blob that imports the script.
 */
export function inheritingScript(script: URL): string {
  return URL.createObjectURL(new Blob([`import ${JSON.stringify(script.href)};`], { type: "text/javascript" }));
}
