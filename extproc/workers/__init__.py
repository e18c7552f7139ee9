"""Several processes as one sidecar: workers read answers, one authority keeps the book.

supervisor   starts both and starts them again: it reads no answer and holds no state
authority    the book, its store, the fleet, webhooks, xDS, the admin port; hears workers (hub)
worker       an ext_proc server on an address of its own; tells the authority (link)
"""
