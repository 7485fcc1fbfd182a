import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** What deny.toml allows for crates holds for the page, too: a package with another licence fails the build. */
function allowedLicences(): string[] {
  const deny = readFileSync(new URL("../../../../deny.toml", import.meta.url), "utf8");
  const list = /\[licenses\]\s*allow = \[([^\]]*)\]/.exec(deny)?.[1] ?? "";
  return [...list.matchAll(/"([^"]+)"/g)].map((match) => match[1] ?? "");
}

/** Writes the licences of the packages that are in the bundle. */
function notices(): Plugin {
  const texts = ["licence", "license", "LICENSE", "LICENSE.md", "LICENSE.txt", "License", "LICENCE"];
  return {
    name: "third-party-notices",
    generateBundle(_, bundle) {
      const packages = new Map<string, string>();
      for (const file of Object.values(bundle)) {
        if (file.type !== "chunk") continue;
        for (const module of Object.keys(file.modules)) {
          const place = /^\0?(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(module);
          if (place?.[1] && place[2]) packages.set(place[2], place[1]);
        }
      }
      const allowed = allowedLicences();
      const parts = [...packages].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, place]) => {
        const about = JSON.parse(readFileSync(join(place, "package.json"), "utf8")) as { version: string; license: string };
        if (!allowed.includes(about.license)) throw new Error(`${name} has the licence ${about.license}, which deny.toml does not allow`);
        const text = texts.map((file) => join(place, file)).flatMap((path) => {
          try {
            return [readFileSync(path, "utf8").replace(/\r\n/g, "\n").trim()];
          } catch {
            return [];
          }
        })[0];
        if (!text) throw new Error(`${name} has no text of its licence in ${place}`);
        return `${name} ${about.version} (${about.license})\n\n${text}\n`;
      });
      const head = "The page of Tranche's live view contains these packages.\n";
      this.emitFile({ type: "asset", fileName: "third-party-notices.txt", source: [head, ...parts].join(`\n${"-".repeat(72)}\n\n`) });
    },
  };
}

export default defineConfig({
  root: dirname(new URL(import.meta.url).pathname),
  base: "./",
  plugins: [notices()],
  // Work on the page: a server of the API, as test/mock.mjs.
  server: { proxy: { "/api": process.env["TRANCHE_UI"] ?? "http://127.0.0.1:8421" } },
  build: {
    target: ["chrome123", "firefox125", "safari17.5"],
    // The server allows nothing inline, and no data: addresses but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
