// Adds to a page that is complete without it: charts can be zoomed, series hidden, tables copied and filtered.
"use strict";
(() => {
  const make = (parent, tag, text, attributes) => {
    const element = document.createElement(tag);
    element.textContent = text;
    Object.entries(attributes || {}).forEach(([name, value]) => element.setAttribute(name, value));
    parent.append(element);
    return element;
  };
  const button = (parent, text, label, act) => {
    const element = make(parent, "button", text, { type: "button", "aria-label": label, title: label });
    element.addEventListener("click", act);
    return element;
  };
  const toolbar = (name) => {
    const element = document.createElement("div");
    element.className = "tools";
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", name);
    return element;
  };

  // ---- charts: the view is the visible part of the field, in fractions of it

  const FULL = { x: [0, 1], y: [0, 1] };
  const CLOSEST = 1 / 400;

  function roundNumbers(low, high, about) {
    const raw = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const misses = (step) => Math.abs((high - low) / step - about);
    const step = [1, 2, 5, 10].map((m) => m * power).reduce((a, b) => (misses(b) < misses(a) ? b : a));
    const numbers = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) numbers.push(i * step);
    return numbers;
  }

  function label(value, signed) {
    const tidy = Number(value.toPrecision(10));
    const size = Math.abs(tidy);
    const plain = size >= 1000 && size < 1e6 ? tidy.toLocaleString("en") : size >= 1e6 || (size && size < 1e-4) ? tidy.toExponential().replace("e+", "e") : String(tidy);
    return (signed && tidy > 0 ? "+" : "") + plain.replaceAll("-", "\u2212");
  }

  function axisOf(svg) {
    if (!svg || !svg.hasAttribute("data-low") || !svg.querySelector("text.tick")) return null;
    const [low, high, log] = [Number(svg.dataset.low), Number(svg.dataset.high), svg.hasAttribute("data-log")];
    const [start, end] = log ? [Math.log(low), Math.log(high)] : [low, high];
    const value = (part) => { const v = start + part * (end - start); return log ? Math.exp(v) : v; };
    const part = (v) => ((log ? Math.log(v) : v) - start) / (end - start);
    const model = svg.querySelector("text.tick").cloneNode();
    return { svg, value, part, model, signed: svg.hasAttribute("data-signed") };
  }

  function zoomable(plot) {
    const directions = plot.dataset.zoom;
    const fields = [...plot.querySelectorAll("svg.field")];
    const inner = fields.map((field) => field.querySelector("svg.data"));
    const axes = { x: axisOf(plot.querySelector("svg.across")), y: axisOf(plot.querySelector("svg.up")) };
    const named = axes.x ? [] : [...plot.querySelectorAll("svg.across text")];
    const marks = [...plot.querySelectorAll("svg.mark")].map((node) => ({ node, x: parseFloat(node.getAttribute("x")) / 100, y: 1 - parseFloat(node.getAttribute("y")) / 100 }));
    const original = [...plot.querySelectorAll("line.v, line.h, text.tick")].map((node) => [node, node.parentNode, node.nextSibling]);
    let view = structuredClone(FULL);

    function tick(axis, name) {
      const [low, high] = view[name];
      const values = roundNumbers(axis.value(low), axis.value(high), plot.classList.contains("small") ? 3 : 5);
      for (const value of values) {
        const at = (axis.part(value) - low) / (high - low);
        const place = `${100 * (name === "y" ? 1 - at : at)}%`;
        const text = axis.model.cloneNode();
        text.setAttribute(name, place);
        text.textContent = label(value, axis.signed);
        axis.svg.append(text);
        for (const field of fields) {
          const line = document.createElementNS(field.namespaceURI, "line");
          const [along, across] = name === "x" ? ["x", "y"] : ["y", "x"];
          line.setAttribute("class", (Math.abs(value) < 1e-12 ? "zero " : "grid ") + (name === "x" ? "v" : "h"));
          [[along + "1", place], [along + "2", place], [across + "1", "0"], [across + "2", "100%"]].forEach(([k, v]) => line.setAttribute(k, v));
          field.prepend(line);
        }
      }
    }

    function draw() {
      const full = view.x[0] === 0 && view.x[1] === 1 && view.y[0] === 0 && view.y[1] === 1;
      plot.classList.toggle("zoomed", !full);
      const [left, width] = [1000 * view.x[0], 1000 * (view.x[1] - view.x[0])];
      const [top, height] = [1000 * (1 - view.y[1]), 1000 * (view.y[1] - view.y[0])];
      inner.forEach((svg) => svg.setAttribute("viewBox", `${left} ${top} ${width} ${height}`));
      for (const mark of marks) {
        const [x, y] = ["x", "y"].map((name) => (mark[name] - view[name][0]) / (view[name][1] - view[name][0]));
        mark.node.setAttribute("x", `${Number((100 * x).toFixed(3))}%`);
        mark.node.setAttribute("y", `${Number((100 * (1 - y)).toFixed(3))}%`);
        mark.node.toggleAttribute("hidden", x < 0 || x > 1 || y < 0 || y > 1);
        mark.node.style.display = mark.node.hasAttribute("hidden") ? "none" : "";
      }
      fields.forEach((field) => field.querySelectorAll(":scope > line.v, :scope > line.h").forEach((line) => line.remove()));
      plot.querySelectorAll("svg.across[data-low] text.tick, svg.up text.tick").forEach((text) => text.remove());
      if (full) {
        fields.forEach((field) => field.prepend(...original.filter(([node, home]) => home === field && node.tagName === "line").map(([node]) => node)));
        Object.values(axes).forEach((axis) => axis && axis.svg.replaceChildren(...original.filter(([, home]) => home === axis.svg).map(([node]) => node)));
      } else {
        Object.entries(axes).forEach(([name, axis]) => axis && tick(axis, name));
        if (named.length) fields.forEach((field) => field.prepend(...original.filter(([node, home]) => home === field && node.classList.contains("v")).map(([node]) => node)));
      }
    }

    function narrow(name, factor, about) {
      const [low, high] = view[name];
      const width = Math.min(1, Math.max(CLOSEST, (high - low) * factor));
      const start = Math.min(1 - width, Math.max(0, low + (about - low) * (1 - width / (high - low))));
      view[name] = width > 0.999 ? [0, 1] : [start, start + width];
    }
    const zoom = (factor, at) => {
      for (const name of directions) narrow(name, factor, at ? view[name][0] + at[name] * (view[name][1] - view[name][0]) : (view[name][0] + view[name][1]) / 2);
      draw();
    };
    const move = (x, y) => {
      for (const [name, by] of [["x", x], ["y", y]]) {
        if (!directions.includes(name)) continue;
        const width = view[name][1] - view[name][0];
        const start = Math.min(1 - width, Math.max(0, view[name][0] + by * width));
        view[name] = [start, start + width];
      }
      draw();
    };
    const reset = () => { view = structuredClone(FULL); draw(); };
    const place = (field, event) => {
      const box = field.getBoundingClientRect();
      return { x: (event.clientX - box.left) / box.width, y: 1 - (event.clientY - box.top) / box.height };
    };

    const tools = toolbar("zoom");
    button(tools, "+", "zoom in", () => zoom(1 / 1.6));
    button(tools, "\u2212", "zoom out", () => zoom(1.6));
    button(tools, "reset", "show the whole chart", reset);
    plot.querySelector(":scope > figcaption") ? plot.querySelector(":scope > figcaption").after(tools) : plot.prepend(tools);

    for (const field of fields) {
      let grabbed = null;
      field.addEventListener("wheel", (event) => {
        if (!(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        zoom(event.deltaY < 0 ? 1 / 1.25 : 1.25, place(field, event));
      }, { passive: false });
      field.addEventListener("pointerdown", (event) => { if (plot.classList.contains("zoomed")) { grabbed = place(field, event); field.setPointerCapture(event.pointerId); } });
      field.addEventListener("pointermove", (event) => { if (grabbed) { const now = place(field, event); move(grabbed.x - now.x, grabbed.y - now.y); grabbed = now; } });
      ["pointerup", "pointercancel"].forEach((name) => field.addEventListener(name, () => { grabbed = null; }));
      field.addEventListener("dblclick", reset);
    }
    const keys = { "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), 0: reset, ArrowLeft: () => move(-0.2, 0), ArrowRight: () => move(0.2, 0), ArrowUp: () => move(0, 0.2), ArrowDown: () => move(0, -0.2) };
    tools.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  function togglable(plot) {
    for (const item of plot.querySelectorAll(".legend > li[data-series]")) {
      const drawn = plot.querySelector(`svg.data > g[data-series="${Number(item.dataset.series)}"]`);
      const element = document.createElement("button");
      element.type = "button";
      element.setAttribute("aria-pressed", "true");
      element.title = "hide or show";
      element.append(...item.childNodes);
      item.append(element);
      element.addEventListener("click", () => {
        const shown = element.getAttribute("aria-pressed") !== "true";
        element.setAttribute("aria-pressed", String(shown));
        drawn.style.display = shown ? "" : "none";
      });
    }
  }

  // ---- films: frames are side by side; while a film plays, one frame is visible

  function playable(film) {
    const frames = [...film.querySelectorAll(":scope > .many > *")];
    const tools = toolbar("film");
    let now = frames.length - 1;
    let timer = null;
    const show = (place) => {
      now = place % frames.length;
      film.classList.add("single");
      frames.forEach((frame, i) => frame.classList.toggle("shown", i === now));
      slider.value = String(now);
      status.textContent = `${now + 1} of ${frames.length}`;
    };
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "play"; };
    const play = button(tools, "play", "play or pause the film", () => {
      if (timer) return stop();
      show(now + 1);
      timer = setInterval(() => show(now + 1), 800);
      play.textContent = "pause";
    });
    const slider = make(tools, "input", "", { type: "range", min: "0", max: String(now), step: "1", "aria-label": "picture of the film" });
    slider.value = String(now);
    slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
    button(tools, "side by side", "show all pictures side by side", () => { stop(); film.classList.remove("single"); status.textContent = ""; });
    const status = make(tools, "span", "", { role: "status" });
    film.querySelector(":scope > .many").before(tools);
  }

  // ---- tables as text

  const rowsOf = (table) => [...table.tHead.rows, ...table.tBodies[0].rows].map((row) => [...row.cells]);
  const shownRows = (table) => rowsOf(table).map((row) => row.filter((cell) => !cell.hidden)); // hidden columns are for CSV
  const textOf = (cell) => cell.textContent.trim().replace(/\s+/g, " ");
  const ascii = (text) => text.replaceAll("\u2212", "-");
  const isNumber = (text) => text !== "" && Number.isFinite(Number(text));

  function csv(table) {
    const field = (cell) => {
      let text = cell.dataset.value === undefined ? ascii(textOf(cell)) : cell.dataset.value;
      if (/^[=@+\-\t]/.test(text) && !isNumber(text)) text = "'" + text; // so that no spreadsheet reads a name as a formula
      return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rowsOf(table).map((row) => row.map(field).join(",")).join("\n") + "\n";
  }

  function markdown(table) {
    const line = (cells) => `| ${cells.join(" | ")} |`;
    const [head, ...body] = shownRows(table).map((row) => row.map((cell) => textOf(cell).replace(/[\\|*[\]<>`]/g, "\\$&")));
    const rule = shownRows(table)[0].map((cell) => (cell.classList.contains("n") ? "---:" : "---"));
    return [line(head), line(rule), ...body.map(line)].join("\n") + "\n";
  }

  const TEX = { "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_", "^": "\\^{}", "~": "\\~{}", "<": "\\textless{}", ">": "\\textgreater{}", "\u2212": "$-$", "\u00d7": "$\\times$", "\u00b1": "$\\pm$" };
  function latex(table) {
    const cell = (each) => textOf(each).replace(/[\\{}$&#%_^~<>\u2212\u00d7\u00b1]/g, (letter) => TEX[letter]);
    const lines = shownRows(table).map((row) => `  ${row.map(cell).join(" & ")} \\\\`);
    const columns = shownRows(table)[0].map((each) => (each.classList.contains("n") ? "r" : "l")).join("");
    return ["% needs \\usepackage{booktabs}", `\\begin{tabular}{${columns}}`, "  \\toprule", lines[0], "  \\midrule", ...lines.slice(1), "  \\bottomrule", "\\end{tabular}", ""].join("\n");
  }

  async function copy(text, tools, status) {
    tools.querySelectorAll("textarea").forEach((old) => old.remove());
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "copied";
    } catch {
      const area = make(tools, "textarea", text, { readonly: "", "aria-label": "the table as text" });
      area.select();
      status.textContent = document.execCommand("copy") ? "copied" : "copy the text below";
      if (status.textContent === "copied") area.remove();
    }
  }

  function copyable(box) {
    const table = box.querySelector("table");
    const tools = toolbar("copy or filter");
    if (table.tBodies[0].rows.length > 12) {
      const wanted = make(tools, "input", "", { type: "search", placeholder: "filter rows", "aria-label": "filter rows" });
      wanted.addEventListener("input", () => {
        const words = wanted.value.toLowerCase().split(/\s+/);
        for (const row of table.tBodies[0].rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      });
    }
    make(tools, "span", "copy as");
    const status = document.createElement("span");
    status.setAttribute("role", "status");
    [["CSV", csv], ["Markdown", markdown], ["LaTeX", latex]].forEach(([name, write]) => button(tools, name, `copy as ${name}`, () => copy(write(table), tools, status)));
    tools.append(status);
    box.append(tools);
  }

  document.documentElement.classList.add("scripted");
  document.querySelectorAll(".plot:not(.rate-rows)").forEach((plot) => { zoomable(plot); togglable(plot); });
  document.querySelectorAll(".film").forEach(playable);
  // ---- the page of a diagnosis: commands can be copied, and a layer shows its numbers

  document.querySelectorAll(".cmd").forEach((box) => {
    const status = make(box, "span", "", { role: "status" });
    button(box, "Copy", "copy the command", () => copy(box.querySelector("code").textContent, box, status));
  });
  document.querySelectorAll(".net .row").forEach((row) => {
    const show = () => document.querySelector(".net .detail").replaceChildren(...row.querySelector(".facts").cloneNode(true).childNodes);
    row.addEventListener("mouseenter", show);
    row.addEventListener("focus", show);
  });

  document.querySelectorAll(".kit-table").forEach(copyable);
})();
