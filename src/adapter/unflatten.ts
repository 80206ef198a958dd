import type { Attributes, AttributeValue } from "../protocol/types.ts";

type Branch = Map<string, Branch | AttributeValue>;

/** Names below each other; what is deeper keeps its dots. */
const maxDepth = 32;

/**
 * The object or list whose flattened members are the keys below `prefix.`; null without any. Members named 0 to n-1
 * make a list. Where a value and an object have one name, the object wins, in whatever order they come.
 */
export function unflatten(attributes: Attributes, prefix: string): unknown {
  const root: Branch = new Map();
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith(`${prefix}.`)) place(root, pathOf(key.slice(prefix.length + 1)), value);
  }
  return root.size === 0 ? null : valueOf(root);
}

function pathOf(key: string): string[] {
  const names = key.split(".");
  if (names.length <= maxDepth) return names;
  return [...names.slice(0, maxDepth - 1), names.slice(maxDepth - 1).join(".")];
}

function place(root: Branch, path: string[], value: AttributeValue): void {
  let branch = root;
  for (const name of path.slice(0, -1)) {
    let next = branch.get(name);
    if (!(next instanceof Map)) branch.set(name, (next = new Map()));
    branch = next;
  }
  const last = path.at(-1) as string;
  if (!(branch.get(last) instanceof Map)) branch.set(last, value);
}

function valueOf(branch: Branch | AttributeValue): unknown {
  if (!(branch instanceof Map)) return branch;
  const names = Array.from({ length: branch.size }, (_, index) => String(index));
  if (names.every((name) => branch.has(name))) {
    return names.map((name) => valueOf(branch.get(name) as Branch));
  }
  return Object.fromEntries([...branch].map(([name, value]) => [name, valueOf(value)]));
}

/** Of a list, or of an object whose members are numbered, in the order of the numbers: gaps are closed. */
export function numberedItems(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const numbered = Object.entries(value).filter(([name]) => /^\d+$/.test(name));
  return numbered.sort(([one], [other]) => Number(one) - Number(other)).map(([, item]) => item);
}
