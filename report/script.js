"use strict";
(function () {
  // A link opens what it leads into, also where the browser does not by itself.
  function reveal() {
    var at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!at) return;
    for (var n = at; n; n = n.parentElement) if (n.tagName === "DETAILS") n.open = true;
    at.scrollIntoView({ block: "nearest" });
  }
  addEventListener("hashchange", reveal);
  reveal();

  var form = document.getElementById("filters");
  var boxes = form.querySelectorAll("input");
  var outcome = document.getElementById("f-outcome");
  var rows = document.querySelectorAll("tr[data-v]");
  var variants = {};
  document.querySelectorAll("details.variant").forEach(function (d) { variants[d.dataset.v] = d; });
  var stories = document.querySelectorAll("details.story");

  function filter() {
    var root = document.documentElement.classList, on = {}, all = true;
    boxes.forEach(function (b) {
      root.toggle(b.dataset.hide, !b.checked);
      all = all && b.checked;
      if (b.dataset.m) on["m" + b.dataset.m] = b.checked;
      if (b.dataset.f) on[b.dataset.f] = b.checked;
    });
    root.toggle("narrowed", !all);
    var want = outcome.value, shown = 0;
    rows.forEach(function (r) {
      var has = !want;
      for (var i = 1; i < r.cells.length && !has; i++) {
        var c = r.cells[i];
        has = on[c.className.split(" ")[0]] && (" " + (c.dataset.o || "") + " ").indexOf(" " + want + " ") >= 0;
      }
      var family = r.closest("details.family");
      r.classList.toggle("out", !has);
      variants[r.dataset.v].classList.toggle("out", !has);
      if (has && on[family.className.split(" ")[1]]) shown++;
    });
    stories.forEach(function (s) {
      s.classList.toggle("out", !s.dataset.ms.split(" ").some(function (m) { return on["m" + m]; }));
    });
    document.getElementById("f-shown").textContent = shown + " of " + rows.length + " variants and twins";
  }
  form.hidden = false;
  form.addEventListener("change", filter);
  form.addEventListener("reset", function () { setTimeout(filter); });
  form.addEventListener("submit", function (e) { e.preventDefault(); });
  filter();
})();
