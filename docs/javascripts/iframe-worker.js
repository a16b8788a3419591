// Lets the search work in pages that are opened as files. Browsers refuse to start a worker from a
// file, so the script of the worker runs in a hidden frame of the page.
(() => {
  if (location.protocol !== "file:") return;
  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.waiting = []; // messages until the script is loaded
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><body></body>");
      inside.document.close();
      inside.postMessage = (data) => this.deliver(this, data);
      inside.importScripts = (...others) => Promise.all(others.map((other) => this.load(other)));
      this.load(address).then(() => {
        const messages = this.waiting;
        this.waiting = null;
        for (const data of messages) this.postMessage(data);
      });
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        this.frame.contentDocument.body.append(script);
      });
    }

    deliver(target, data) {
      target.dispatchEvent(new MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(this.frame.contentWindow, data);
    }

    terminate() {
      this.frame.remove();
    }
  }
  window.Worker = FrameWorker;
})();
