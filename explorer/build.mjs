// Builds the explorer, one HTML file with style, script and formulas in it, and the script of the gallery:
// node build.mjs [EXPLORER.html GALLERY.js]
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import temml from "temml";

const target = process.argv[2] ?? new URL("../src/gatewise/report/explorer/explorer.html", import.meta.url).pathname;
const script_target = process.argv[3] ?? new URL("../src/gatewise/report/templates/gallery.js", import.meta.url).pathname;
const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8");

// The page forbids styles outside of its own sheet, so MathML keeps only its elements.
function mathml(latex) {
  const markup = temml.renderToString(latex, { throwOnError: true, trust: false });
  return markup.replace(/ (style|class)="[^"]*"/g, "");
}

const formulas = {};
for (const [, text] of read("src/catalogue.ts").matchAll(/^ {4}formula: (".*"),$/gm)) {
  const latex = JSON.parse(text);
  formulas[latex] = mathml(latex);
}

const bundled = (name) => build({
  entryPoints: [new URL(name, import.meta.url).pathname],
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2020",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [{
    name: "formulas",
    setup(bundler) {
      bundler.onResolve({ filter: /^formulas$/ }, () => ({ path: "formulas", namespace: "made" }));
      bundler.onLoad({ filter: /.*/, namespace: "made" }, () => ({ contents: JSON.stringify(formulas), loader: "json" }));
    },
  }],
});

const text_of = async (name) => (await bundled(name)).outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
const script = await text_of("src/main.tsx");
const style = read("src/style.css").trim();
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = `default-src 'none'; style-src ${digest(style)}; script-src ${digest(script)}; img-src data:; base-uri 'none'; form-action 'none'`;
const page = read("src/page.html")
  .replace("POLICY", () => policy)
  .replace("STYLE", () => style)
  .replace("SCRIPT", () => script);
writeFileSync(target, page);
const sliders = await text_of("src/gallery.ts");
writeFileSync(script_target, `${sliders}\n`);
console.log(`${script_target}: ${Buffer.byteLength(sliders)} bytes`);
console.log(`${target}: ${Buffer.byteLength(page)} bytes`);
