// Seen on JupyterLab 4.6: a restart shows as a status of the session, a shutdown as a kernel that changes to null,
// a kernel that the server lost as the status "dead". A restarted kernel does not know this panel: it stays gone.
const GONE = ["restarting", "autorestarting", "terminating", "dead"];
const LOST = ["connecting", "disconnected"];

function render({ model, el }) {
  const session = model.widget_manager?.context?.sessionContext;
  const line = document.createElement("div");
  line.setAttribute("role", "alert");
  line.hidden = true;
  el.classList.add("jupyter-placement-kernel");
  el.append(line);

  const look = () => {
    const [x, y] = model.get("sight");
    const graph = el.closest(".jupyter-placement-panel")?.querySelector(".jpp-graph");
    if (!graph || y === undefined) return;
    const hidden = y < graph.scrollTop + 30 || y > graph.scrollTop + graph.clientHeight - 60;
    const top = hidden ? y - graph.clientHeight / 2 : graph.scrollTop;
    // A drawing that grew is laid out in the next frames: scroll once it has its height.
    setTimeout(() => graph.scrollTo({ top, left: x - graph.clientWidth / 2, behavior: "smooth" }), 250);
  };
  model.on("change:sight", look);
  if (!session) return () => model.off("change:sight", look);

  let gone = false;
  const say = (text) => {
    line.textContent = text;
    line.hidden = !text;
    el.closest(".jupyter-placement-panel")?.classList.toggle("jupyter-placement-gone", gone);
  };
  const end = () => {
    gone = true;
    say(model.get("gone"));
  };
  const onStatus = (_, status) => GONE.includes(status) && end();
  const onKernel = () => end();
  const onConnection = (_, status) => {
    if (!gone) say(LOST.includes(status) ? model.get("lost") : "");
  };
  session.statusChanged.connect(onStatus);
  session.kernelChanged.connect(onKernel);
  session.connectionStatusChanged.connect(onConnection);
  return () => {
    model.off("change:sight", look);
    session.statusChanged.disconnect(onStatus);
    session.kernelChanged.disconnect(onKernel);
    session.connectionStatusChanged.disconnect(onConnection);
  };
}

export default { render };
