// Makes src/rowfall/report/page/charts.js and the licences of what is in it: `make charts`.
// The same lock file gives the same bytes: no date, no path of this machine is in them.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const to = process.argv[2] ?? join(here, "../src/rowfall/report/page");
const { version } = JSON.parse(
  readFileSync(join(here, "node_modules/@observablehq/plot/package.json"), "utf8"),
);

const made = await build({
  absWorkingDir: here,
  entryPoints: ["entry.js"],
  outfile: join(to, "charts.js"),
  bundle: true,
  minify: true,
  metafile: true,
  format: "iife",
  target: "es2020",
  legalComments: "none", // all licences are in charts.LICENSE
  banner: { js: `/* Observable Plot ${version} and what it needs; licences: charts.LICENSE */` },
});

const found = new Set();
for (const input of Object.keys(made.metafile.inputs)) {
  const match = /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (match) found.add(match[1]);
}
const texts = [...found].sort().map((name) => {
  const folder = join(here, "node_modules", name);
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : about.license;
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
});
writeFileSync(join(to, "charts.LICENSE"), texts.join("\n" + "-".repeat(80) + "\n\n"));
