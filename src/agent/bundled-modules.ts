import { plugin } from "bun";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import * as mcpClient from "@modelcontextprotocol/sdk/client/index.js";
import * as mcpStdio from "@modelcontextprotocol/sdk/client/stdio.js";
import * as mcpHttp from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as mcpTypes from "@modelcontextprotocol/sdk/types.js";
import * as openai from "openai";
import * as valibot from "valibot";

/**
 * Packages in this program that an agent file may import without installing them. They are imported before they
 * are offered: run from source, an import made later would find the offer itself.
 */
const bundled: Record<string, Record<string, object>> = {
  openai: { openai },
  valibot: { valibot },
  "@modelcontextprotocol/sdk": {
    "@modelcontextprotocol/sdk/client/index.js": mcpClient,
    "@modelcontextprotocol/sdk/client/stdio.js": mcpStdio,
    "@modelcontextprotocol/sdk/client/streamableHttp.js": mcpHttp,
    "@modelcontextprotocol/sdk/types.js": mcpTypes,
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
        for (const [specifier, exports] of Object.entries(modules)) {
          // An async factory, so that nothing gets a second copy through `require`.
          build.module(specifier, async () => ({ loader: "object", exports: { ...exports } }));
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
