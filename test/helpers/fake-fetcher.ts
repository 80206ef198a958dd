import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Stands for trainer/fetch_model.py where no Python is needed; what it does is named by HF_FAKE_FETCH. */
if (import.meta.main) {
  const [, , , , folder = ""] = process.argv;
  const say = (line: unknown) => console.log(JSON.stringify(line));
  mkdirSync(folder, { recursive: true });
  switch (process.env["HF_FAKE_FETCH"]) {
    case "whole":
      say({ kind: "listing", files: { "model.safetensors": 4, "config.json": 2 } });
      writeFileSync(join(folder, "model.safetensors"), "1234");
      writeFileSync(join(folder, "config.json"), "{}");
      say({ kind: "progress", bytes: 6, total: 6 });
      say({ kind: "result", commit: "c", files: 2 });
      break;
    case "huge":
      say({ kind: "listing", files: { "model.safetensors": 1e18 } });
      await Bun.sleep(60_000);
      break;
    case "stalls":
      for (let line = 0; line < 600; line++) {
        say({ kind: "progress", bytes: 3, total: 6 });
        await Bun.sleep(100);
      }
      break;
    case "dies":
      console.error("ModuleNotFoundError: No module named 'huggingface_hub'");
      process.exit(1);
      break;
    case "fails-late":
      say({ kind: "result", commit: "c", files: 2 });
      process.exit(3);
  }
}
