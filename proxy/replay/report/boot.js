(() => {
  const figure = JSON.parse(document.getElementById("figure").textContent);
  const charts = document.getElementById("charts");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = (isDark) => {
    const ink = isDark ? "#e3e8ef" : "#1c2430", grid = isDark ? "#2c3541" : "#e6e9ee";
    const paper = isDark ? "#14181f" : "#ffffff";
    const change = { "font.color": ink, "hoverlabel.bgcolor": paper, "hoverlabel.font.color": ink };
    for (const name of Object.keys(figure.layout).filter((key) => /^[xy]axis/.test(key))) {
      change[name + ".gridcolor"] = grid;
      change[name + ".linecolor"] = grid;
      change[name + ".zerolinecolor"] = grid;
    }
    return change;
  };
  const paint = (isDark) => Plotly.relayout(charts, colours(isDark));
  charts.style.minHeight = figure.layout.height + "px";
  Plotly.newPlot(charts, figure.data, figure.layout, { responsive: true, displaylogo: false })
    .then(() => paint(dark.matches && !matchMedia("print").matches));
  dark.addEventListener("change", () => paint(dark.matches));
  addEventListener("beforeprint", () => paint(false));
  addEventListener("afterprint", () => paint(dark.matches));
})();
