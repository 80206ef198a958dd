import { plugin } from "bun";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** Packages in this program that an agent file may import without installing them. */
const bundled: Record<string, Record<string, () => Promise<object>>> = {
  openai: { openai: () => import("openai") },
  valibot: { valibot: () => import("valibot") },
  "@modelcontextprotocol/sdk": {
    "@modelcontextprotocol/sdk/client/index.js": () => import("@modelcontextprotocol/sdk/client/index.js"),
    "@modelcontextprotocol/sdk/client/stdio.js": () => import("@modelcontextprotocol/sdk/client/stdio.js"),
    "@modelcontextprotocol/sdk/client/streamableHttp.js": () =>
      import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    "@modelcontextprotocol/sdk/types.js": () => import("@modelcontextprotocol/sdk/types.js"),
  },
};

export const bundledSpecifiers = Object.values(bundled).flatMap((modules) => Object.keys(modules));

/** Offers our copies to an agent file, except where it has its own in a `node_modules` above it. */
export function offerBundledModules(agentFile: string): void {
  plugin({
    name: "agl",
    setup(build) {
      build.module("agl", () => ({ loader: "object", exports: {} }));
      for (const [name, modules] of Object.entries(bundled)) {
        if (isInstalledFor(agentFile, name)) continue;
        for (const [specifier, load] of Object.entries(modules)) {
          build.module(specifier, async () => ({ loader: "object", exports: { ...(await load()) } }));
        }
      }
    },
  });
}

function isInstalledFor(agentFile: string, name: string): boolean {
  for (let folder = dirname(agentFile); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "node_modules", name, "package.json"))) return true;
    if (folder === dirname(folder)) return false;
  }
}
