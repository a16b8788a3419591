def native_splitter():
    return None
