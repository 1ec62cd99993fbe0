// Search where pages are opened from the disk: browsers start no worker there, so a hidden frame runs its script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      this.inside = this.frame.contentWindow
      const prelude = `
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = done
          document.body.appendChild(script)
        })), Promise.resolve())
        window.postMessage = (message) => window.answer(message)`
      this.inside.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise((done) => {
        const text = this.inside.document
        for (const part of [{ text: prelude }, { src: url, onload: done }]) {
          const script = text.createElement("script")
          Object.assign(script, part)
          text.body.appendChild(script)
        }
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
